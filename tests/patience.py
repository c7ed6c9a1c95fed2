"""How long tests wait for others before they say that nothing comes any more."""

PATIENCE_S = 600
"""For another process or thread. It says only when a test that hangs ends: a slow machine is no failure."""
BROWSER_PATIENCE_S = 60
"""For a page that is there already to show something: a page that is wrong is asked by each of its tests."""
