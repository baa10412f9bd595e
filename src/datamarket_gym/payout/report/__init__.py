"""Pages people read: self-contained HTML files, no network, everything escaped."""

from datamarket_gym.errors import require_extra

require_extra("jinja2", "payout")
