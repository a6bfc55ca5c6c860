"""The osmo API: the routes that the osmo client calls, and those in its specification."""
