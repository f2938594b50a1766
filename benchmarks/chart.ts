/** Horizontal bars as SVG, readable on light and dark pages. */

/** One line of a chart: several values with the same label. */
export interface Bars {
  readonly label: string;
  /** By the name of the series; milliseconds or bytes, as the chart says. */
  readonly values: Readonly<Record<string, number>>;
}

/** One kind of bar. */
export interface Series {
  /** Name in `Bars.values`. */
  readonly name: string;
  readonly title: string;
}

/** What a chart is about. */
export interface ChartText {
  readonly title: string;
  /** Below the title: what the figures depend on. */
  readonly subtitle: string;
  /** The line that is emphasised. */
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

/** Draws the lines in the order given, their series below one another, on one linear scale from 0. */
export function barChart(
  lines: readonly Bars[],
  series: readonly Series[],
  about: ChartText,
): string {
  const values = lines.flatMap((line) => Object.values(line.values));
  const longest = Math.max(0, ...values.filter((value) => !Number.isNaN(value)));
  const scale = longest === 0 ? 0 : (WIDTH - LEFT - LABEL_WIDTH - VALUE_WIDTH) / longest;
  const lineHeight = series.length * (BAR_HEIGHT + 2) + GAP;
  const height = HEAD_HEIGHT + lines.length * lineHeight;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeXml(about.title)}">`,
    `<style>${STYLE}</style>`,
    text(LEFT, 22, about.title, 'title'),
    text(LEFT, 41, about.subtitle),
  ];
  for (const [index, { title }] of series.entries()) {
    const x = LEFT + LABEL_WIDTH + index * 190;
    parts.push(`<rect x="${x}" y="53" width="11" height="11" class="s${index}"/>`);
    parts.push(text(x + 17, 63, title));
  }
  for (const [row, { label, values }] of lines.entries()) {
    const top = HEAD_HEIGHT + row * lineHeight;
    const ours = label === about.emphasis ? 'ours' : '';
    const middle = top + (series.length * (BAR_HEIGHT + 2)) / 2 + 3;
    parts.push(text(LEFT, middle, label, ours));
    for (const [index, { name }] of series.entries()) {
      const value = values[name] ?? Number.NaN;
      if (Number.isNaN(value)) continue;
      const y = top + index * (BAR_HEIGHT + 2);
      const width = Math.max(1, value * scale);
      const className = `${ours} s${index}`.trim();
      parts.push(
        `<rect x="${LEFT + LABEL_WIDTH}" y="${y}" width="${width.toFixed(1)}" height="${BAR_HEIGHT}" rx="2" class="${className}"/>`,
        text(Math.round(LEFT + LABEL_WIDTH + width + 6), y + 10, about.format(value), ours),
      );
    }
  }
  return `${[...parts, '</svg>'].join('\n')}\n`;
}
