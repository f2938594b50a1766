/** A box that scrolls, in which the keyboard can scroll, too. */

import type { ComponentChildren } from 'preact';

/** Shows its children in a box that is as wide as the page; `height` limits how much of them it shows. */
export function ScrollBox(props: {
  /** For screen readers. */
  readonly label: string;
  readonly height?: 'long' | 'tall';
  readonly children: ComponentChildren;
}) {
  const { label, height, children } = props;
  const name = height === undefined ? 'scroll' : `scroll ${height}`;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached by the keyboard
    <section class={name} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
