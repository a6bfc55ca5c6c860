import pytest

pytest.register_assert_rewrite(f"{__name__}.campaign", f"{__name__}.server")
