/** The address of the page as state of its parts. */

import { useEffect, useState } from 'preact/hooks';
import { type Address, formatAddress, parseAddress } from '../address.js';

/** The address now. */
export function currentAddress(): Address {
  return parseAddress(location.hash);
}

/** The address with changes; undefined leaves a name out. */
export function addressWith(
  changes: { readonly [Name in keyof Address]?: string | undefined },
): string {
  return formatAddress({ ...currentAddress(), ...changes } as Address);
}

/** The address of another view: of its own it has what is open, and what is given. */
export function viewAddress(
  view: string,
  more: Omit<Address, 'open' | 'with' | 'base' | 'view'> & {
    readonly with?: string | undefined;
  } = {},
): string {
  const { open, with: second, base, find, sort } = currentAddress();
  return formatAddress({ ...{ open, with: second, base, find, sort }, view, ...more } as Address);
}

/** Goes to an address; `replace` leaves no step in the browser's history. */
export function go(hash: string, { replace = false } = {}): void {
  if (hash === location.hash) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', hash);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

/** The address, renewed when it changes. */
export function useAddress(): Address {
  const [address, setAddress] = useState(currentAddress);
  useEffect(() => {
    const update = () => setAddress(currentAddress());
    addEventListener('hashchange', update);
    addEventListener('popstate', update);
    return () => {
      removeEventListener('hashchange', update);
      removeEventListener('popstate', update);
    };
  }, []);
  return address;
}
