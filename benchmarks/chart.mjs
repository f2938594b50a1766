/** Horizontal bars as SVG, readable on light and dark pages. */

const WIDTH = 760;
const LABEL_WIDTH = 230;
const VALUE_WIDTH = 90;
const BAR_HEIGHT = 11;
const GAP = 9;
const HEAD_HEIGHT = 78;
const LEFT = 12;

// Mid tones that stand out from white and from black; the text follows the page where it can.
const STYLE = `text{font:12px system-ui,sans-serif;fill:#57606a}
.title{font-size:15px;font-weight:600}.ours{font-weight:700}
.s0{fill:#9aa4af}.s1{fill:#4c84d6}.ours.s1{fill:#d9822b}.ours.s0{fill:#e8b27a}
@media(prefers-color-scheme:dark){text{fill:#c9d1d9}.s0{fill:#6e7781}}`;

const NAMES = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot' };
const escapeXml = (text) => text.replace(/[&<>"]/g, (character) => `&${NAMES[character]};`);

const text = (x, y, content, className = '') =>
  `<text x="${x}" y="${y}"${className && ` class="${className}"`}>${escapeXml(content)}</text>`;

/**
 * Draws `bars`, a value of every one of the `series` by label, NaN when it was not measured, on one linear scale
 * from 0; the label with the shortest last bar comes first, `emphasis` stands out.
 */
export function barChart({ title, series, bars, emphasis, format }, subtitle) {
  const lines = [...bars].sort(([, a], [, b]) => (a.at(-1) ?? 0) - (b.at(-1) ?? 0));
  const values = lines.flatMap(([, bars]) => bars).filter((value) => !Number.isNaN(value));
  const scale = (WIDTH - LEFT - LABEL_WIDTH - VALUE_WIDTH) / Math.max(1e-9, ...values);
  const lineHeight = series.length * (BAR_HEIGHT + 2) + GAP;
  const height = HEAD_HEIGHT + lines.length * lineHeight;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeXml(title)}">`,
    `<style>${STYLE}</style>`,
    text(LEFT, 22, title, 'title'),
    text(LEFT, 41, subtitle),
  ];
  for (const [index, name] of series.entries()) {
    const x = LEFT + LABEL_WIDTH + index * 190;
    parts.push(`<rect x="${x}" y="53" width="11" height="11" class="s${index}"/>`);
    parts.push(text(x + 17, 63, name));
  }
  for (const [row, [label, bars]] of lines.entries()) {
    const top = HEAD_HEIGHT + row * lineHeight;
    const ours = label === emphasis ? 'ours' : '';
    parts.push(text(LEFT, top + (series.length * (BAR_HEIGHT + 2)) / 2 + 3, label, ours));
    for (const [index, value] of bars.entries()) {
      if (Number.isNaN(value)) continue;
      const y = top + index * (BAR_HEIGHT + 2);
      const width = Math.max(1, value * scale);
      const className = `${ours} s${index}`.trim();
      parts.push(
        `<rect x="${LEFT + LABEL_WIDTH}" y="${y}" width="${width.toFixed(1)}" height="${BAR_HEIGHT}" rx="2" class="${className}"/>`,
        text(Math.round(LEFT + LABEL_WIDTH + width + 6), y + 10, format(value), ours),
      );
    }
  }
  return `${[...parts, '</svg>'].join('\n')}\n`;
}
