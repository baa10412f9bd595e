"""The explorer: a local web page over what the command line does (extra ``explorer``), ``datamarket explore``."""

from datamarket_gym.errors import require_extra

require_extra("fastapi", "explorer")
require_extra("uvicorn", "explorer")
