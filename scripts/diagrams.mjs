// Draws the pictures of docs/internals/how-it-works.md into docs/internals/pictures: `node scripts/diagrams.mjs`. They
// follow the reader's light or dark scheme. A test compares the files with what this draws.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const WIDTH = 760;

const STYLE = `
  .page { fill: #ffffff; } .line { stroke: #8c959f; fill: none; } .tip { fill: #8c959f; }
  .plain { fill: #eaeef2; } .header { fill: #fff1c2; } .first { fill: #ddf4ff; } .second { fill: #dafbe1; } .bad { fill: #ffebe9; }
  rect { stroke: #8c959f; } text { fill: #1f2328; font: 13px system-ui, sans-serif; } .small { fill: #59636e; font-size: 12px; }
  .code { font-family: ui-monospace, monospace; font-size: 12px; } .strong { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #161b22; } .plain { fill: #2d333b; } .header { fill: #4d3d0a; } .first { fill: #0c3a5c; }
    .second { fill: #0f4420; } .bad { fill: #5c1a1a; } text { fill: #e6edf3; } .small { fill: #9da7b1; }
  }`;

const escaped = (value) => value.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** A line of text; `at` is start, middle or end. */
function text(x, y, words, kind = '', at = 'start') {
  return `<text x="${x}" y="${y}" class="${kind}" text-anchor="${at}">${escaped(words)}</text>`;
}

/** A box with lines of text in its middle. */
function box(x, y, width, height, kind, lines = []) {
  const first = y + height / 2 - (lines.length - 1) * 8 + 4;
  const words = lines.map(([line, style = ''], i) =>
    text(x + width / 2, first + i * 17, line, style, 'middle'),
  );
  return `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="3" class="${kind}"/>${words.join('')}`;
}

/** An arrow along straight lines through the points. */
function arrow(...points) {
  const [[x1, y1], [x2, y2]] = points.slice(-2);
  const angle = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
  const path = points.map(([x, y]) => `${x},${y}`).join(' ');
  return `<polyline points="${path}" class="line"/><path d="M0,0 L-8,-4 L-8,4 Z" class="tip" transform="translate(${x2},${y2}) rotate(${angle})"/>`;
}

function picture(height, title, ...parts) {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}">
<title>${escaped(title)}</title><style>${STYLE}</style>
<rect x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8" class="page"/>
${parts.flat(3).join('\n')}
</svg>
`;
}

/** From the file to a view: the same bytes, four times. */
function mapping() {
  const ranges = [
    [110, 60, 'plain', [['8 bytes', 'small']]],
    [170, 120, 'header', [['header, JSON']]],
    [290, 270, 'first', [['embed.weight', 'code']]],
    [560, 180, 'second', [['norm.weight', 'code']]],
  ];
  const row = (y, withText) =>
    ranges.map(([x, width, kind, lines]) => box(x, y, width, 38, kind, withText ? lines : []));
  return picture(
    386,
    'From a file to a view: file, mapping, tensors, views',
    [text(20, 46, 'file', 'strong'), row(24, true)],
    [arrow([200, 62], [200, 98]), text(210, 86, 'open: the header is read and checked', 'small')],
    [text(20, 126, 'mapping', 'strong'), row(104, false)],
    text(425, 127, 'no copy: pages come in when touched', 'small', 'middle'),
    text(650, 127, 'writes stay private', 'small', 'middle'),
    [arrow([425, 142], [425, 184]), arrow([650, 142], [650, 184])],
    [text(435, 168, 'getTensor(name)', 'code')],
    [text(20, 216, 'tensor', 'strong')],
    box(290, 190, 270, 44, 'first', [['Tensor, BF16 [8, 4]'], ['its own ArrayBuffer', 'small']]),
    box(560, 190, 180, 44, 'second', [['Tensor, F32 [4]'], ['its own ArrayBuffer', 'small']]),
    [arrow([350, 234], [350, 276]), arrow([500, 234], [500, 276]), arrow([650, 234], [650, 276])],
    [text(20, 308, 'view', 'strong')],
    box(290, 282, 130, 44, 'first', [
      ['.data', 'code'],
      ['Uint16Array', 'small'],
    ]),
    box(430, 282, 130, 44, 'first', [
      ['.slice(1)', 'code'],
      ['row 1, a view', 'small'],
    ]),
    box(560, 282, 180, 44, 'second', [
      ['.data', 'code'],
      ['Float32Array', 'small'],
    ]),
    text(
      20,
      360,
      'close() ends the handle. The mapping goes when the last tensor or view is collected.',
      'small',
    ),
  );
}

/** A save, and what the path has meanwhile. */
function save() {
  const steps = [
    ['1 check', 'all tensors,', 'all options'],
    ['2 reserve', 'temporary file,', 'its space'],
    ['3 write', 'header,', 'then tensors'],
    ['4 fsync', 'the file is', 'on the disk'],
    ['5 rename', 'over the path,', 'in one step'],
    ['6 fsync', 'the folder is', 'on the disk'],
  ];
  const [left, width, gap] = [20, 105, 18];
  const x = (i) => left + i * (width + gap);
  const switched = x(4) + width / 2;
  return picture(
    236,
    'A save, step by step, and what the path has meanwhile',
    steps.map(([name, ...lines], i) => [
      box(x(i), 24, width, 76, i === 4 ? 'second' : 'plain', [
        [name, 'strong'],
        ...lines.map((line) => [line, 'small']),
      ]),
      i === 0 ? '' : arrow([x(i) - gap, 62], [x(i) - 2, 62]),
    ]),
    arrow([switched, 100], [switched, 138]),
    box(left, 144, switched - left, 38, 'first', [['the path has the old file, whole']]),
    box(switched, 144, WIDTH - 20 - switched, 38, 'second', [['the new file, whole']]),
    text(
      20,
      212,
      'An error, an abort or a loss of power in steps 1 to 4 leaves the old file. Open handles keep what they have opened.',
      'small',
    ),
  );
}

/** What a remote read fetches. */
function remote() {
  const [left, right] = [110, 740];
  const piece = (x, width, kind, lines = []) => box(x, 40, width, 38, kind, lines);
  return picture(
    300,
    'What a remote read fetches of a file of 10 GB',
    [text(20, 62, 'file', 'strong'), text(right, 30, '10 GB', 'small', 'end')],
    box(left, 40, right - left, 38, 'plain'),
    piece(left, 60, 'header'),
    piece(300, 8, 'first'),
    [piece(480, 44, 'second'), piece(524, 10, 'plain'), piece(534, 50, 'second')],
    [arrow([140, 78], [140, 128]), arrow([304, 78], [304, 128]), arrow([532, 78], [532, 128])],
    box(60, 134, 170, 62, 'header', [
      ['open(source)', 'code'],
      ['1 request', 'strong'],
      ['the first 100 000 bytes', 'small'],
    ]),
    box(246, 134, 180, 62, 'first', [
      ["getSlice('embed', 42)", 'code'],
      ['1 request', 'strong'],
      ['the bytes of one row', 'small'],
    ]),
    box(442, 134, 260, 62, 'second', [
      ["readTensors(['k', 'v'])", 'code'],
      ['1 request', 'strong'],
      ['neighbours, up to 64 KiB apart', 'small'],
    ]),
    text(
      60,
      232,
      'Names, dtypes and shapes cost no further request. A long tensor comes in pieces of 8 MiB, eight at a time.',
      'small',
    ),
    text(
      60,
      254,
      'Every answer must be exactly the range asked for, of the version that answered first.',
      'small',
    ),
    text(60, 276, 'A connection that breaks goes on from where it broke.', 'small'),
  );
}

/** The pictures by their file. */
export const pictures = { 'mapping.svg': mapping(), 'save.svg': save(), 'remote.svg': remote() };

const file = fileURLToPath(import.meta.url);
if (process.argv[1] === file) {
  const folder = join(file, '../../docs/internals/pictures');
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of Object.entries(pictures))
    writeFileSync(join(folder, name), content);
}
