/** Notes of a scan, and its remaining budgets. */

import { type FormatError, quoteName } from '../../errors/errors.js';
import type { AllPickleLimits } from '../pickle/limits.js';
import { type ScannedPickle, scanOpcodes } from '../pickle/scan.js';
import type { ScanContext } from '../pickle/walk.js';
import { allowedGlobal } from '../torch/state-dict/globals.js';
import { adviceFor, isHostileGlobal } from '../torch/state-dict/judged-globals.js';
import { EntryError } from '../zip/entry-error.js';
import { MAX_DEFLATE_RATIO } from '../zip/limits.js';
import type {
  ScanFinding,
  ScanFindingKind,
  ScannedGlobal,
  ScanReport,
  ScanVerdict,
} from './scan-report.js';

/** TorchScript is a program, regardless of its pickles. */
const TORCH_SCRIPT_ADVICE =
  'only if you trust it, load it with torch.jit.load and save its state_dict()';

/** Most pickles in a file, and most globals and findings of all its pickles: the scan stops at more. */
const MAX_PICKLES = 1000;
const MAX_FINDINGS_LISTED = 10_000;

/** Budgets for inflating the starts of all entries: inflated and deflated bytes. */
const MAX_STARTS_BYTE_LENGTH = 2 ** 29;

/** Budget for the headers of all arrays: enough for 131 000 usual ones. */
const MAX_HEADERS_BYTE_LENGTH = 2 ** 24;

/** Bytes that may contain pickles: a whole file, its start, or an entry. */
export interface PickleSource {
  readonly bytes: Uint8Array;
  /** End of the file or entry that begins with these bytes. */
  readonly byteLength: number;
  readonly entry: string | undefined;
}

/** A pickle, and the places of its unexpected persistent ids. */
export interface WalkedPickle extends ScannedPickle {
  readonly strayIds: readonly number[];
}

/** Bytes that a pickle loads as another file, and the place of the call. */
interface NotedInnerFile {
  readonly bytes: Uint8Array;
  readonly position: number;
  readonly entry: string | undefined;
}

/** What is left for all pickles of a file and of the files in it. */
interface ScanBudget {
  opcodes: number;
  byteLength: number;
  starts: number;
  headers: number;
}

/** The notes of one file. */
export class ScanNotes {
  readonly limits: AllPickleLimits;
  readonly #globals: ScannedGlobal[] = [];
  readonly #findings: ScanFinding[] = [];
  readonly #problems: string[] = [];
  readonly #innerFiles: NotedInnerFile[] = [];
  /** The globals of inner files, by place and name. */
  readonly #innerGlobals = new Set<string>();
  readonly #budget: ScanBudget;
  #pickleCount = 0;
  #isFull = false;
  /** Whether the file is an archive of a program. */
  isTorchScript = false;

  /** The notes of a file in another one share its budget. */
  constructor(limits: AllPickleLimits, outer?: ScanNotes) {
    this.limits = limits;
    this.#budget =
      outer === undefined
        ? {
            opcodes: limits.maxOpcodes,
            byteLength: limits.maxPickleByteLength,
            starts: MAX_STARTS_BYTE_LENGTH,
            headers: MAX_HEADERS_BYTE_LENGTH,
          }
        : outer.#budget;
  }

  report(format: string): ScanReport {
    const verdict = this.#verdict();
    return {
      verdict,
      format: this.isTorchScript ? 'TorchScript' : format,
      pickleCount: this.#pickleCount,
      globals: this.#globals,
      findings: this.#findings,
      problems: this.#problems,
      ...this.#advice(verdict),
    };
  }

  /** Advice about files that need code; others hide what they run. */
  #advice(verdict: ScanVerdict): Pick<ScanReport, 'advice' | 'optionAdvice'> {
    const isHostile = this.#globals.some(({ kind }) => kind === 'hostile');
    if (this.isTorchScript && !isHostile) return { advice: TORCH_SCRIPT_ADVICE };
    const remedy = verdict === 'needs-code' ? adviceFor(this.#globals, true) : undefined;
    if (remedy === undefined || remedy.advice.length === 0) return { advice: remedy?.text };
    return { advice: remedy.text, optionAdvice: remedy.advice };
  }

  #verdict(): ScanVerdict {
    // A file that ends too soon is damaged, not suspicious.
    const isOdd = this.#findings.some(({ kind }) => kind !== 'cut-short');
    if (isOdd || this.#globals.some(({ kind }) => kind === 'hostile')) return 'suspicious';
    if (this.#problems.length > 0 || this.#findings.length > 0) return 'malformed';
    if (this.#globals.some(({ kind }) => kind === 'unknown')) return 'needs-code';
    return this.#pickleCount > 0 ? 'safe' : 'no-pickle';
  }

  /** The files in the pickles, each once. */
  takeInnerFiles(): NotedInnerFile[] {
    return this.#innerFiles.splice(0);
  }

  /** Adds the notes of a file in a pickle, at the place of the call that loads it. */
  addInner(inner: ScanNotes, { position, entry }: NotedInnerFile): void {
    for (const { module, name, kind } of inner.#globals) {
      const key = JSON.stringify([entry, module, name]);
      if (this.#innerGlobals.has(key)) continue;
      this.#innerGlobals.add(key);
      this.#addGlobal({ module, name, position, entry, kind });
    }
    for (const { kind, message } of inner.#findings) {
      this.add(kind, `in the bytes of a storage: ${message}`, position, entry);
    }
    for (const problem of inner.#problems) this.addProblem(problem);
  }

  add(kind: ScanFindingKind, message: string, position: number, entry?: string): void {
    if (this.#isFull) return;
    if (this.#globals.length + this.#findings.length >= MAX_FINDINGS_LISTED) {
      this.#isFull = true;
      const full = 'found more than is listed';
      this.#findings.push({ kind: 'limit', message: full, position, entry });
      return;
    }
    this.#findings.push({ kind, message, position, entry });
  }

  addProblem(problem: string): void {
    if (this.#problems.length < MAX_FINDINGS_LISTED) this.#problems.push(problem);
  }

  /** Notes a reader's error: a limit, a wrong checksum, or damage. */
  addError(error: FormatError, position: number, entry?: string): void {
    const fault = EntryError.faultOf(error);
    if (fault === 'damage') this.addProblem(error.message);
    else this.add(fault, error.message, position, entry);
  }

  /** Spends bytes of an entry from the budget for pickles. */
  spendBytes(byteLength: number, entry: string): void {
    this.#budget.byteLength -= byteLength;
    if (this.#budget.byteLength < 0) {
      throw limitError(
        entry,
        'with it, the pickles are longer than limits.maxPickleByteLength allows',
      );
    }
  }

  /** Lets `inflate` make the start of an entry, within the budgets. */
  spendStart(
    entry: string,
    deflatedByteLength: number,
    inflate: (most: number) => Uint8Array,
  ): Uint8Array {
    if (this.#budget.starts <= 0) throw tooLong('the starts of its entries are', entry);
    // An error at the end hides the inflated bytes before it.
    let spent = MAX_DEFLATE_RATIO * deflatedByteLength;
    try {
      const start = inflate(this.#budget.starts);
      spent = Math.max(start.length, deflatedByteLength);
      return start;
    } finally {
      this.#budget.starts -= spent;
    }
  }

  /** Counts the header of an array; false once the budget is spent. */
  spendHeader(byteLength: number): boolean {
    this.#budget.headers -= byteLength;
    return this.#budget.headers >= 0;
  }

  /** Walks over the pickle at a byte; `notePersistentId` alone takes notes. */
  walk(
    { bytes, byteLength, entry }: PickleSource,
    begin: number,
    notePersistentId?: ScanContext['notePersistentId'],
  ): WalkedPickle {
    const strayIds: number[] = [];
    const noteStray = (_: unknown, at: number): void => {
      if (strayIds.length < MAX_FINDINGS_LISTED) strayIds.push(at);
    };
    const limits = { ...this.limits, maxOpcodes: Math.max(1, this.#budget.opcodes) };
    const part = entry === undefined ? {} : { part: entry };
    const note = notePersistentId ?? noteStray;
    const context = { ...part, fileEnd: byteLength, notePersistentId: note };
    const scanned = scanOpcodes(bytes, begin, limits, context);
    this.#budget.opcodes -= scanned.opcodeCount;
    return { ...scanned, strayIds };
  }

  /** Notes the findings of a walk. */
  addPickle(scanned: WalkedPickle, entry: string | undefined): void {
    if (this.#pickleCount >= MAX_PICKLES) {
      this.add('limit', `found more than ${MAX_PICKLES} pickles`, scanned.end, entry);
      this.#isFull = true;
      return;
    }
    this.#pickleCount++;
    for (const { module, name, position } of scanned.globals) {
      this.#addGlobal({ module, name, position, entry, kind: kindOfGlobal(module, name) });
      if (this.#isFull) break;
    }
    for (const { bytes, position } of scanned.innerFiles) {
      this.#innerFiles.push({ bytes, position, entry });
    }
    for (const { name, position, message } of scanned.suspiciousOpcodes) {
      this.add('opcode', `the opcode ${name}, ${message}`, position, entry);
    }
    for (const at of scanned.strayIds) {
      this.add('persistent-id', 'expected no persistent id, found one', at, entry);
    }
    const { problem } = scanned;
    if (problem === undefined) return;
    if (scanned.isLimit === true) {
      this.add('limit', problem, scanned.end, entry);
      return;
    }
    this.addProblem(problem);
    // joblib stores arrays within a pickle.
    if (scanned.globals.some(({ module, name }) => kindOfGlobal(module, name) !== 'allowed')) {
      const message = 'bytes that are no opcodes: a class that the pickle names may read them';
      this.add('unread-bytes', message, scanned.end, entry);
    }
  }

  #addGlobal(global: ScannedGlobal): void {
    if (this.#globals.length + this.#findings.length < MAX_FINDINGS_LISTED) {
      this.#globals.push(global);
    } else if (!this.#isFull) {
      this.add('limit', 'found more globals than are listed', global.position, global.entry);
    }
  }

  /** Whether the verdict is certain and notes have ended. */
  get isFull(): boolean {
    return this.#isFull;
  }
}

/** The error for an entry that is not scanned because earlier entries have spent the budget. */
export function tooLong(what: string, entry: string): FormatError {
  return limitError(entry, `${what} longer than the scan reads`);
}

function limitError(entry: string, message: string): FormatError {
  return new EntryError('limit', `entry ${quoteName(entry)}: ${message}`);
}

function kindOfGlobal(module: string, name: string): ScannedGlobal['kind'] {
  if (allowedGlobal(module, name) !== undefined) return 'allowed';
  return isHostileGlobal(module, name) ? 'hostile' : 'unknown';
}
