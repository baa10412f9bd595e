"""Why did I get this? What a run's tables say of each payee: as text, as JSON, and as a page for the payee."""
