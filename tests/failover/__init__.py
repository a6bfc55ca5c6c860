import pytest

pytest.register_assert_rewrite(f"{__name__}.servers", f"{__name__}.load")
