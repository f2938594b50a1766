/** The version of the package, as in package.json. The addon has its own, which must be the same. */
export const VERSION = '0.1.0';
