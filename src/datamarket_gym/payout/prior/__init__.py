"""Prior art: what earlier runs have bought, and what that makes of the units of a new one."""
