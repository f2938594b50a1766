/** The menu of a card with what can be saved of it. */

import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { type Cell, csvText, jsonText, saveBlob } from './save.js';

/** A menu with a table as CSV and JSON, a picture as PNG, and other things to do. */
export function Export({
  name,
  table,
  picture,
  children,
}: {
  /** Of the files, and for screen readers. */
  name: string;
  table?: { readonly columns: readonly string[]; readonly rows: () => Iterable<readonly Cell[]> };
  picture?: () => HTMLCanvasElement | null;
  children?: ComponentChildren;
}) {
  const menu = useRef<HTMLDetailsElement>(null);
  const close = () => {
    if (menu.current !== null) menu.current.open = false;
  };
  const items: readonly (readonly [kind: string, save: () => void])[] = [
    ...(picture === undefined
      ? []
      : [
          [
            'PNG',
            () => picture()?.toBlob((blob) => blob !== null && saveBlob(`${name}.png`, blob)),
          ] as const,
        ]),
    ...(table === undefined
      ? []
      : ([
          ['CSV', () => save('csv', 'text/csv', csvText(table.columns, table.rows()))],
          ['JSON', () => save('json', 'application/json', jsonText(table.columns, table.rows()))],
        ] as const)),
  ];
  const save = (extension: string, type: string, text: string) =>
    saveBlob(`${name}.${extension}`, new Blob([text], { type }));
  return (
    <details
      ref={menu}
      class="menu"
      onClick={({ target }) => (target as Element).closest('button') !== null && close()}
      onFocusOut={({ relatedTarget, currentTarget }) =>
        relatedTarget !== null && !currentTarget.contains(relatedTarget as Node) && close()
      }
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || menu.current?.open !== true) return;
        event.stopPropagation();
        close();
        menu.current.querySelector('summary')?.focus();
      }}
    >
      <summary class="button" aria-label={`Export ${name}`}>
        Export
      </summary>
      <div class="menu-items">
        {items.map(([kind, act]) => (
          <button
            key={kind}
            type="button"
            class="quiet"
            aria-label={`Save ${name} as ${kind}`}
            onClick={act}
          >
            {kind}
          </button>
        ))}
        {children}
      </div>
    </details>
  );
}
