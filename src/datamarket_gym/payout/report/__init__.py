"""Pages people read: self-contained HTML files, no network, everything escaped."""
