/** Lists of views that one call fills or writes. */

/** Most views of one call: the systems' limit. */
export const MAX_VIEWS = 1024;

/** Returns the views without their first `count` bytes. */
export function withoutFirst(views: readonly Uint8Array[], count: number): Uint8Array[] {
  const rest: Uint8Array[] = [];
  let skipped = count;
  for (const view of views) {
    if (skipped < view.byteLength) rest.push(view.subarray(skipped));
    skipped = Math.max(0, skipped - view.byteLength);
  }
  return rest;
}
