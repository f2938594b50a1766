/** Methods that had another name on earlier pages: calling one says the new name. */

/**
 * Gives a class methods of the old names, hidden from loops, that throw a TypeError `ERR_METHOD_NOT_IMPLEMENTED`
 * with the new name.
 *
 * @param renamed new names by old ones
 */
export function renameMethods(
  type: { readonly name: string; readonly prototype: object },
  renamed: Readonly<Record<string, string>>,
): void {
  for (const [old, now] of Object.entries(renamed)) {
    const value = (): never => {
      const message = `${type.name} has no method ${old}; it is ${now} now`;
      throw Object.assign(new TypeError(message), { code: 'ERR_METHOD_NOT_IMPLEMENTED' });
    };
    Object.defineProperty(type.prototype, old, { value, enumerable: false, configurable: true });
  }
}
