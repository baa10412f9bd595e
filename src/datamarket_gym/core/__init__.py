"""What everything hangs on: errors, arrays, content keys, the registry, files and runs."""
