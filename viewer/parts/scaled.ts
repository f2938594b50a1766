/** Scrolling over more than browsers can place: the bar then moves by parts, the rows by their whole height. */

/** Tallest element that all browsers place exactly. */
export const MAX_EXTENT = 8_000_000;

/** How far the content moves for a pixel of the bar. */
export function scrollScale(total: number, visible: number): number {
  return total > MAX_EXTENT ? (total - visible) / (MAX_EXTENT - visible) : 1;
}
