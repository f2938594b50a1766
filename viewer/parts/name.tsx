/** Names of tensors in a column: wrapped, never cut. */

import type { ComponentChildren } from 'preact';
import type { NamePart } from '../names.js';

/** For screen readers a name is one text: its lines would be words. */
export function Name({ label, lines }: { label: string; lines: readonly (readonly NamePart[])[] }) {
  return (
    <>
      <span class="hidden">{label}</span>
      <span class="name" title={label} aria-hidden="true">
        {lines.map((parts, line) => (
          <span key={line}>
            {parts.map(({ text, kind }, at) => {
              if (kind === 'match') return <mark key={at}>{text}</mark>;
              return kind === 'own' ? <b key={at}>{text}</b> : text;
            })}
          </span>
        ))}
      </span>
    </>
  );
}

/** A name in a text: it wraps after separators and before words, `Deepseek|V3|For|Causal|LM`. */
export function wrapped(name: string): ComponentChildren {
  return name
    .split(/(?<=[._/-])(?=.)|(?<=[a-z])(?=[A-Z])/)
    .flatMap((part, at) => (at === 0 ? part : [<wbr key={at} />, part]));
}

let measured: number | undefined;

/** Letters of a name that fit into so many pixels. */
export function nameColumns(pixels: number): number {
  measured ??= letterWidth();
  return Math.max(8, Math.floor(pixels / measured));
}

/** The width of a letter: all have one, strong ones too. */
function letterWidth(): number {
  const probe = document.createElement('span');
  probe.className = 'name-probe';
  probe.textContent = 'm'.repeat(100);
  document.body.append(probe);
  const { width } = probe.getBoundingClientRect();
  probe.remove();
  return width / 100 || 8;
}
