"""What a worker remembers of markets is bounded by bytes, whatever their sizes."""

from datamarket_gym.explorer.market.cache import bounded, paid_by


def test_the_newest_are_kept_up_to_so_many_bytes():
    asked = []

    @bounded(10, len)
    def text(n, sign="x"):
        asked.append((n, sign))
        return sign * n

    assert [text(4), text(5), text(4)] == ["xxxx", "xxxxx", "xxxx"]
    assert asked == [(4, "x"), (5, "x")]
    text(3)  # 12 bytes: the one that was asked for longest ago goes
    text(4)
    assert asked == [(4, "x"), (5, "x"), (3, "x")]
    text(5)
    assert asked[-1] == (5, "x")
    text(50)  # larger than all: kept alone
    text(50)
    assert asked.count((50, "x")) == 1
    text(5, sign="y")
    assert text(5, sign="y") == "yyyyy"
    assert asked.count((5, "y")) == 1


def test_payments_are_remembered_so():
    assert paid_by.__name__ == "paid_by"
    assert not hasattr(paid_by, "cache_info")
