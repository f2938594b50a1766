/** Horizontal bars as SVG, readable on light and dark pages. */

/** Bars by label: every label has a value for every series, NaN when it was not measured. */
export interface Chart {
  /** Name of its file. */
  readonly file: string;
  readonly title: string;
  /** What the bars of a label stand for, in their order. */
  readonly series: readonly string[];
  readonly bars: ReadonlyMap<string, readonly number[]>;
  /** The label that stands out. */
  readonly emphasis: string;
  format(value: number): string;
}

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

function escapeXml(text: string): string {
  const names: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot' };
  return text.replace(/[&<>"]/g, (character) => `&${names[character]};`);
}

function text(x: number, y: number, content: string, className = ''): string {
  const attribute = className === '' ? '' : ` class="${className}"`;
  return `<text x="${x}" y="${y}"${attribute}>${escapeXml(content)}</text>`;
}

/** Draws a chart on one linear scale from 0; the label with the shortest last bar comes first. */
export function barChart(chart: Chart, subtitle: string): string {
  const { title, series, format } = chart;
  const lines = [...chart.bars].sort(([, a], [, b]) => (a.at(-1) ?? 0) - (b.at(-1) ?? 0));
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
    const ours = label === chart.emphasis ? 'ours' : '';
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
