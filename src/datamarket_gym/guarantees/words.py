"""A certificate in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datamarket_gym.guarantees.certificate import Certificate, Terms


def paragraph(certificate: Certificate) -> str:
    """What was tried, what it gained, what is guaranteed, and what is not."""
    return " ".join((_measured(certificate), _guaranteed(certificate), _limits(certificate)))


def _measured(c: Certificate) -> str:
    names = "one name" if len(c.identities) == 1 else f"{len(c.identities)} names"
    change = f"from {c.honest_payment:.4f} to {c.attacked_payment:.4f}"
    times = "" if c.multiplier is None else f" (times {c.multiplier:.3f})"
    what = f"{c.provider} played {c.attack} under {names}"
    return f"{what}; {c.mechanism.id} changed its pay {change}{times}."


def _guaranteed(c: Certificate) -> str:
    if c.claim == "exact":
        return (
            "Clusters, representatives and the provider's share of every cluster stayed as they were, "
            "so by Theorem 2 the gain is exactly zero."
        )
    if c.claim == "none" or c.terms is None:
        why = next(x.why for x in c.conditions if x.name == "matching")
        return f"The theorems do not apply and guarantee nothing here: {why}."
    what = {
        "certain": "the gain is at most",
        "probable": f"with probability {1 - c.delta:g} the gain is at most",
        "expected": "the gain expected over the sampling of coalitions is at most",
    }[c.claim]
    source, terms = "Theorem 3", "made of"
    if c.terms.normalized is not None:
        source, terms = "Theorem 3 and the lemma on normalised pay", "from raw terms of"
    obeyed = "The measured gain obeys it." if c.obeys else "The measured gain EXCEEDS it."
    if c.terms.bound >= abs(c.grand_value):
        obeyed += " This is as much as all data together are worth, so it rules nothing out."
    return f"By {source}, {what} {c.terms.bound:.4f}, {terms} {_channels(c.terms)}. {obeyed}"


def _channels(terms: Terms) -> str:
    parts = [
        f"{terms.allocation:.4f} from shares gained inside clusters",
        f"{terms.escape:.4f} from {len(terms.escaped)} clusters that escaped the evidence",
        f"{terms.drift:.4f} from changed scores of {len(terms.matching)} matched clusters",
    ]
    if terms.eta:
        error = terms.error_of_terms + 2 * terms.n_clusters * terms.eta
        parts.append(f"{error:.4f} from sampling error (eta {terms.eta:.2g})")
    return ", ".join(parts)


def _limits(c: Certificate) -> str:
    text = "This speaks of this manipulation on this market, not of others that were not tried."
    if c.claim == "expected":
        text += " The error bars are themselves estimates."
    if c.claim == "probable":
        text += (
            " The probability is that of the sampling of coalitions, for a manipulation fixed before."
        )
    return text
