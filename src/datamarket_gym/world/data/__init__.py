"""Public data sets and model weights: where they lie, how they are fetched, and what is in them."""

from datamarket_gym.world.data.corpus import DOMAINS, Corpus, Domain, domain, load_corpus
from datamarket_gym.world.data.embeddings import Embeddings, load_embeddings, write_embeddings
from datamarket_gym.world.data.files import cache_folder, data_file, find

__all__ = [
    "DOMAINS",
    "Corpus",
    "Domain",
    "Embeddings",
    "cache_folder",
    "data_file",
    "domain",
    "find",
    "load_corpus",
    "load_embeddings",
    "write_embeddings",
]
