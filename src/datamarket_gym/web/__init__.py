"""The explorer: a local web page over the functions of the command line (extra ``web``): ``datamarket explore``."""
