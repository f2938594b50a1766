// A module that does nothing: terminate-imports.mjs compares the package with it.
