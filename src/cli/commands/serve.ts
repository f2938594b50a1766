/** `serve`: the page that shows checkpoints, for those on this machine. */

import { setFlagsFromString } from 'node:v8';
import { plural } from '../../inspect/format.js';
import type { Style } from '../output/style.js';
import { infoLines } from '../output/table.js';
import { SHOWN_NAME_LENGTH, visible } from '../output/visible.js';
import type { ServedSource } from '../serve/model-files.js';
import { openBrowser } from '../serve/open-browser.js';
import { servedPage } from '../serve/page.js';
import { PageServer } from '../serve/server.js';
import { servedSources } from '../serve/sources.js';
import { pathOf } from '../sources/open-source.js';
import type { SkippedPath } from '../sources/walk-folder.js';
import { type Command, type OptionValues, printResult, UsageError } from './command.js';
import { REPOSITORY, repositoryChoice } from './repository-options.js';
import { skippedLines } from './skipped-lines.js';

const MAX_PORT = 65_535;

/** V8 looks at these whenever it collects, so that they have an effect in a process that runs. */
const SMALL_HEAP: readonly string[] = ['--optimize-for-size', '--semi-space-growth-factor=1'];

/** What is served, for `--json`. */
interface ServeResult {
  /** The address of the page, with the token. */
  readonly address: string;
  readonly sources: readonly {
    readonly name: string;
    readonly files: readonly string[];
    /** Shards that the index names, and that are missing. */
    readonly missing: readonly string[];
  }[];
  /** Files and folders in folders of models that are not served. */
  readonly skipped: readonly SkippedPath[];
  /** Addresses that the page opens by itself: the server makes no request for it. */
  readonly addresses: readonly string[];
}

/** The names by which an address of the page opens a model, and one next to it. */
const OPEN_NAMES = ['open', 'with'];

const CHOICE_OF_ADDRESS =
  'the page opens addresses: --variant and --revision choose local files; pass hf://org/name@REVISION';

/** The view that opens addresses. */
function viewOf(addresses: readonly string[]): string {
  if (addresses.length > OPEN_NAMES.length) {
    throw new UsageError('the page opens an address and a second one to compare; pass at most two');
  }
  return addresses.map((one, at) => `${OPEN_NAMES[at]}=${encodeURIComponent(one)}`).join('&');
}

/** The port; 0, which takes a free one, without the option. */
function portOf({ port = '0' }: OptionValues): number {
  const number = typeof port === 'string' && /^\d{1,5}$/.test(port) ? Number(port) : Number.NaN;
  if (number <= MAX_PORT) return number;
  throw new UsageError(`--port takes a number from 0 to ${MAX_PORT}`);
}

function serveLines({ address, sources, skipped }: ServeResult, style: Style): string[] {
  const facts = sources.map(({ name, files, missing }) => {
    const count = plural(files.length, 'file');
    const text = missing.length === 0 ? '' : `, ${plural(missing.length, 'shard')} missing`;
    return [visible(name, SHOWN_NAME_LENGTH), count + style.warning(text)] as const;
  });
  const lines = infoLines(facts, style.dim);
  const others = skippedLines(skipped, style);
  return [style.bold(address), '', ...lines, ...others, '', 'Ctrl-C ends the server.'];
}

/** Resolves when the signal is aborted. */
function abortOf(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

export const serveCommand: Command = {
  summary: 'Show local checkpoints in a browser',
  usage: 'serve SOURCE…',
  description:
    'Serve the viewer, and the bytes of these files, folders and cached repositories, to local browsers, until ' +
    'Ctrl-C. A folder with several models, such as models or the Hub cache, is served as a list. The page itself ' +
    'fetches hf:// and https:// addresses. Open the printed address: only browsers with its token have access. ' +
    'Nothing is uploaded or written.',
  example: 'serve models',
  options: {
    open: { type: 'boolean', help: 'open the viewer in the browser' },
    port: { type: 'string', value: 'PORT', help: 'the port; a free one by default' },
    ...REPOSITORY,
  },
  positionals: [1, Number.POSITIVE_INFINITY],
  async run(context, given, options) {
    const { signal, stderr } = context;
    // A server waits most of its time: V8 collects earlier, and does not keep 32 MB for new objects.
    for (const flag of SMALL_HEAP) setFlagsFromString(flag);
    const port = portOf(options);
    const page = servedPage();
    const sources: ServedSource[] = [];
    const choice = repositoryChoice(options);
    const skipped: SkippedPath[] = [];
    const addresses: string[] = [];
    for (const source of given) {
      if (pathOf(source) === null) {
        if (Object.keys(choice).length > 0) throw new UsageError(CHOICE_OF_ADDRESS);
        addresses.push(source);
        continue;
      }
      const found = await servedSources(source, choice, signal);
      sources.push(...found.sources);
      skipped.push(...found.skipped);
    }
    const view = viewOf(addresses);
    const server = await PageServer.start({ page, sources, view }, port);
    try {
      const result: ServeResult = {
        address: server.address,
        sources: sources.map(({ name, files, missing }) => {
          return { name, files: files.map((file) => file.name), missing };
        }),
        ...{ skipped, addresses },
      };
      printResult(context, options, result, serveLines);
      const failure =
        options['open'] === true ? await openBrowser(server.addressForOpening()) : null;
      if (failure !== null) stderr.write(`no browser was started: ${visible(failure)}\n`);
      await abortOf(signal);
    } finally {
      await server.close();
    }
    return 'done';
  },
};
