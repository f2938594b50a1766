/** Which code of the library ran, as V8 counts it block by block. */
import { type Profiler, Session } from 'node:inspector';

/** State of a character of a module: not known to have run, run by an input of the batch, or by a known input. */
const UNSEEN = 0;
const FRESH = 1;
const KNOWN = 2;

interface Module {
  readonly seen: Uint8Array;
  /** Every function that V8 told of, by its range, and whether it ran. */
  readonly functions: Map<string, SeenFunction>;
}

interface SeenFunction {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
  ran: boolean;
}

/** How much of some modules ran; characters are those within functions. */
export interface CoverageSummary {
  readonly modules: number;
  readonly functions: number;
  readonly functionsRun: number;
  readonly characters: number;
  readonly charactersRun: number;
  /** `module: function` of those that did not run. */
  readonly notRun: readonly string[];
}

/** Counts from its construction; make it before the library is imported. */
export class Coverage {
  readonly #session = new Session();
  readonly #root: string;
  readonly #modules = new Map<string, Module>();

  /** The root is the URL of the folder of the compiled library. */
  constructor(root: string) {
    this.#root = root;
    this.#session.connect();
    this.#post('Profiler.enable');
    this.#post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** All that ran so far is known. */
  takeSeeds(): void {
    this.#take(UNSEEN, KNOWN);
  }

  /** Whether code ran since the last call that never ran before. */
  takeBatch(): boolean {
    return this.#take(UNSEEN, FRESH);
  }

  /** Whether code ran since the last call that only the last batch ran. */
  takePart(): boolean {
    return this.#take(FRESH, FRESH);
  }

  /** The same for one input, whose code then counts as known: the input is worth keeping if so. */
  takeInput(): boolean {
    return this.#take(FRESH, KNOWN);
  }

  summary(sources: RegExp): CoverageSummary {
    const modules = [...this.#modules].filter(([name]) => sources.test(name));
    const functions = modules.flatMap(([module, { functions }]) =>
      Array.from(functions.values(), (found) => ({ ...found, module })),
    );
    let [characters, charactersRun] = [0, 0];
    for (const [, { seen, functions }] of modules) {
      const isCode = new Uint8Array(seen.length);
      for (const { begin, end } of functions.values()) if (begin > 0) isCode.fill(1, begin, end);
      characters += isCode.filter((is) => is === 1).length;
      charactersRun += seen.filter((mark, at) => mark !== UNSEEN && isCode[at] === 1).length;
    }
    return {
      modules: modules.length,
      functions: functions.length,
      functionsRun: functions.filter(({ ran }) => ran).length,
      characters,
      charactersRun,
      notRun: functions
        .filter(({ ran }) => !ran)
        .map(({ module, name }) => `${module}: ${name || '(anonymous)'}`),
    };
  }

  #take(from: number, to: number): boolean {
    const { result } = this.#post('Profiler.takePreciseCoverage') as {
      result: Profiler.ScriptCoverage[];
    };
    let isNew = false;
    for (const { url, functions } of result) {
      if (!url.startsWith(this.#root)) continue;
      const module = this.#moduleOf(url.slice(this.#root.length, -'.js'.length), functions);
      for (const found of functions) {
        const [range] = found.ranges;
        if (range === undefined) continue;
        const { startOffset: begin, endOffset: end } = range;
        const key = `${begin}-${end}`;
        const name = found.functionName;
        const known = module.functions.get(key) ?? { name, begin, end, ran: false };
        known.ran ||= range.count > 0;
        module.functions.set(key, known);
      }
      const ranges = functions.flatMap((found) => found.ranges);
      isNew = mark(module.seen, ranges, from, to) || isNew;
    }
    return isNew;
  }

  #moduleOf(name: string, functions: readonly Profiler.FunctionCoverage[]): Module {
    const known = this.#modules.get(name);
    if (known !== undefined) return known;
    // The first function of a module is the module.
    const length = functions[0]?.ranges[0]?.endOffset ?? 0;
    const module = { seen: new Uint8Array(length), functions: new Map() };
    this.#modules.set(name, module);
    return module;
  }

  #post(method: string, params: object = {}): unknown {
    let answer: unknown;
    this.#session.post(method, params, (error, result) => {
      if (error) throw new Error(`${method}: ${error.message}`);
      answer = result;
    });
    return answer;
  }
}

/** Marks the characters that ran. Ranges are nested; the innermost holds. */
function mark(
  seen: Uint8Array,
  ranges: readonly Profiler.CoverageRange[],
  from: number,
  to: number,
): boolean {
  let isNew = false;
  let at = 0;
  const open: Profiler.CoverageRange[] = [];
  const advance = (end: number): void => {
    if ((open.at(-1)?.count ?? 0) > 0) {
      for (let i = at; i < end; i++) {
        if (seen[i] !== from) continue;
        seen[i] = to;
        isNew = true;
      }
    }
    at = end;
  };
  const closeBefore = (offset: number): void => {
    for (let last = open.at(-1); last !== undefined; last = open.at(-1)) {
      if (last.endOffset > offset) return;
      advance(last.endOffset);
      open.pop();
    }
  };
  const inOrder = ranges.toSorted(
    (a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset,
  );
  for (const range of inOrder) {
    closeBefore(range.startOffset);
    advance(range.startOffset);
    open.push(range);
  }
  closeBefore(Number.POSITIVE_INFINITY);
  return isNew;
}
