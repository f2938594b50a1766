/** The samples of a soak as a picture: a panel for each figure, readable on light and dark pages. */

const WIDTH = 760;
const LEFT = 70;
const RIGHT = 16;
const PANEL_HEIGHT = 96;
const PANEL_GAP = 34;
const HEAD = 44;

/** Points of a line: of more samples, the largest in turn stands for its neighbours. */
const POINTS = 240;

const MB = 2 ** 20;

/** A line: whether it is of samples at work or at rest, its class, and its figure. */
const busyLine = (figure) => ['busy', figure];
const restLine = (figure) => ['rest', figure];
const quietLine = (figure) => ['quiet', figure];

/** Panels: a title and its lines. */
const PANELS = [
  [
    'private memory, MB',
    busyLine((s) => s.privateBytes / MB),
    restLine((s) => s.privateBytes / MB),
  ],
  [
    'of this outside of the heap, MB; grey: the heap, used',
    quietLine((s) => s.heapUsed / MB),
    restLine((s) => s.nativeBytes / MB),
  ],
  ['mappings of files', restLine((s) => s.fileMappings)],
  [
    'other mappings without the heap; grey: their MB',
    quietLine((s) => s.otherBytes / MB),
    restLine((s) => s.otherMappings),
  ],
  ['empty mappings: addresses of detached files, up to 4 096', restLine((s) => s.emptyMappings)],
  ['descriptors', busyLine((s) => s.descriptors), restLine((s) => s.descriptors)],
  ['handles', restLine((s) => s.handles)],
  [
    'event loop, p99 in ms: what ran in a turn; grey: its delay',
    quietLine((s) => s.delayP99),
    restLine((s) => s.ranP99),
  ],
];

const STYLE = `text{font:12px system-ui,sans-serif;fill:#57606a}.title{font-size:15px;font-weight:600}
polyline{fill:none;stroke-width:1.5}.busy,.quiet{stroke:#9aa4af}.rest{stroke:#d9822b}line{stroke:#9aa4af;stroke-opacity:.5}
@media(prefers-color-scheme:dark){text{fill:#c9d1d9}.busy,.quiet{stroke:#6e7781}}`;

function thin(points) {
  const step = Math.ceil(points.length / POINTS);
  const groups = Array.from({ length: Math.ceil(points.length / step) || 0 }, (_, i) =>
    points.slice(i * step, (i + 1) * step),
  );
  return groups.map((group) => group.reduce((a, b) => (b[1] > a[1] ? b : a)));
}

/** Draws grey lines of samples during work, and orange ones of samples at rest. */
export function draw(title, busy, rests) {
  const seconds = rests.at(-1)?.seconds ?? 1;
  const height = HEAD + PANELS.length * (PANEL_HEIGHT + PANEL_GAP);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${title}">`,
    `<style>${STYLE}</style>`,
    `<text x="12" y="20" class="title">${title}</text>`,
    '<text x="12" y="37">orange: at rest, garbage collected; grey: at work, unless it says otherwise</text>',
  ];
  for (const [index, [panel, ...lines]] of PANELS.entries()) {
    const top = HEAD + index * (PANEL_HEIGHT + PANEL_GAP) + 20;
    const bottom = top + PANEL_HEIGHT;
    const series = lines.map(([kind, figureOf]) => [
      kind,
      thin((kind === 'busy' ? busy : rests).map((sample) => [sample.seconds, figureOf(sample)])),
    ]);
    const highest = Math.max(1e-9, ...series.flatMap(([, points]) => points.map(([, y]) => y)));
    const at = ([x, y]) =>
      `${(LEFT + (x / seconds) * (WIDTH - LEFT - RIGHT)).toFixed(1)},${(bottom - (y / highest) * PANEL_HEIGHT).toFixed(1)}`;
    parts.push(
      `<text x="${LEFT}" y="${top - 6}">${panel}</text>`,
      `<text x="${LEFT - 6}" y="${top + 10}" text-anchor="end">${Number(highest.toPrecision(3))}</text>`,
      `<text x="${LEFT - 6}" y="${bottom}" text-anchor="end">0</text>`,
      `<line x1="${LEFT}" y1="${bottom}" x2="${WIDTH - RIGHT}" y2="${bottom}"/>`,
      ...series.map(
        ([kind, points]) => `<polyline class="${kind}" points="${points.map(at).join(' ')}"/>`,
      ),
    );
  }
  return `${[...parts, '</svg>'].join('\n')}\n`;
}
