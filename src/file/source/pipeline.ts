/** A pipeline of diffusers: several models by their folders, local or remote. */

import { FormatError, quoteName } from '../../errors/errors.js';
import type { TransferOptions } from '../../work/transfer.js';
import { PIPELINE_FILE } from '../shards/file-names.js';
import { isOfFile, problemOf } from '../shards/file-problems.js';
import {
  type CheckpointCheck,
  type CheckpointProblem,
  reportOf,
  unverifiedFile,
  type VerificationReport,
  type VerifiedFile,
} from '../shards/verification-report.js';
import { requireVerifyBytesOptions, type VerifyBytesOptions } from './verify-options.js';

/** An open model of a pipeline: a `Checkpoint` or a `RemoteCheckpoint`. */
interface PipelineModel {
  /** The checks of `verify`, except for hashes that files declare. */
  readonly checks: readonly CheckpointCheck[];
  /** Resolves with the report, whatever its problems. */
  verify(options?: VerifyBytesOptions): Promise<VerificationReport>;
  /** Closes it. */
  close(): void;
}

/** What a pipeline is made of. */
interface PipelineParts<Model> {
  readonly path: string;
  readonly models: ReadonlyMap<string, Model>;
  readonly missing: readonly string[];
  readonly failed: ReadonlyMap<string, Error>;
  /** Compares the bytes of all models, with one progress; without it each model compares its own. */
  readonly bytes?: PipelineBytes | undefined;
  /** Ends what the models share. */
  end?(): void;
}

/** The bytes of all models of a pipeline. */
export interface PipelineBytes {
  /** The checks of `verify` besides those of the models. */
  readonly checks: readonly CheckpointCheck[];
  /**
   * Returns the problems, and every file with its folder. Throws errors that don't concern the files, and
   * `signal.reason`.
   */
  verify(options: TransferOptions): Promise<{
    readonly problems: readonly CheckpointProblem[];
    readonly files: readonly VerifiedFile[];
  }>;
}

/** What both ways to open a pipeline take besides the options of a checkpoint. */
export interface PipelineOptions {
  /**
   * True goes on when a model cannot be opened, and leaves it out: `failed` has its error, and `verify()` reports it. By
   * default the first such error is thrown.
   */
  readonly skipFailed?: boolean | undefined;
}

/**
 * Opens the models of a pipeline one after the other, by their folders. `skipFailed` leaves out models that cannot be
 * opened; else the first error is thrown, and the models before it are closed.
 */
export function openModels<Place, Model extends Pick<PipelineModel, 'close'>>(
  places: Iterable<readonly [folder: string, place: Place]>,
  skipFailed: boolean,
  open: (place: Place) => Model,
): Pick<PipelineParts<Model>, 'models' | 'failed'> {
  const models = new Map<string, Model>();
  const failed = new Map<string, Error>();
  try {
    for (const [folder, place] of places) {
      try {
        models.set(folder, open(place));
      } catch (error) {
        if (!skipFailed || !isOfFile(error)) throw error;
        failed.set(folder, error);
      }
    }
    return { models, failed };
  } catch (error) {
    for (const model of models.values()) model.close();
    throw error;
  }
}

/**
 * Names of the components in a `model_index.json`: those with a library and a class. A component that was left out has
 * `null` for both.
 *
 * @throws FormatError `SAFETENSORS_INVALID_PIPELINE` for anything but a JSON object
 */
export function componentsIn(text: string, path: string): string[] {
  let index: unknown;
  try {
    index = JSON.parse(text);
  } catch {
    index = undefined;
  }
  if (typeof index !== 'object' || index === null || Array.isArray(index)) {
    const message = 'expected model_index.json to be a JSON object, found something else';
    throw new FormatError('SAFETENSORS_INVALID_PIPELINE', message, { path });
  }
  return Object.entries(index).flatMap(([name, value]) => {
    const isNamed = Array.isArray(value) && value.length === 2 && typeof value[1] === 'string';
    return isNamed && !name.startsWith('_') ? [name] : [];
  });
}

/** The problem of a folder that `model_index.json` names and that is not there. */
export function missingComponent(name: string, path: string): CheckpointProblem {
  const message = `expected the folder ${quoteName(name)}, which model_index.json names, found none`;
  return problemOf(
    PIPELINE_FILE,
    new FormatError('SAFETENSORS_INVALID_PIPELINE', message, { path }),
  );
}

/** The problem of a model that cannot be opened: of its file, when the error names one. */
function failedModel(folder: string, error: Error): CheckpointProblem {
  const { path } = error as { path?: unknown };
  const name = typeof path === 'string' ? path.slice(path.search(/[^\\/]*$/)) : folder;
  return problemOf(name === folder ? folder : `${folder}/${name}`, error);
}

/**
 * An open Diffusers pipeline: its models by folder. `openPipeline` opens it, local or on the Hub.
 *
 * @example
 * ```ts
 * const pipeline = await openPipeline('my-pipeline');
 * console.log(pipeline.models.get('unet')?.getTensor('norm.weight').shape); // → [ 4 ]
 * console.log((await pipeline.verify()).ok); // → true
 * pipeline.close();
 * ```
 */
export class Pipeline<Model extends PipelineModel> {
  /** Path or address of the folder. */
  readonly path: string;
  /**
   * The models by their folders, such as `unet`, in the order of names. Folders without weights, as of a scheduler or
   * a tokenizer, have none.
   */
  readonly models: ReadonlyMap<string, Model>;
  /** Folders that `model_index.json` names and that are not there: `verify()` reports them. */
  readonly missing: readonly string[];
  /** Opened with `skipFailed`: why models cannot be opened, by their folders. Else empty. */
  readonly failed: ReadonlyMap<string, Error>;
  readonly #bytes: PipelineBytes | undefined;
  readonly #end: (() => void) | undefined;

  private constructor({ path, models, missing, failed, bytes, end }: PipelineParts<Model>) {
    this.path = path;
    this.models = models;
    this.missing = missing;
    this.failed = failed;
    this.#bytes = bytes;
    this.#end = end;
  }

  /** @internal Takes ownership of the models. */
  static of<Model extends PipelineModel>(parts: PipelineParts<Model>): Pipeline<Model> {
    return new Pipeline(parts);
  }

  /** The checks of `verify()`, except for hashes that files declare: its report lists those. */
  get checks(): readonly CheckpointCheck[] {
    const checks = [...this.models.values()].flatMap((model) => model.checks);
    return [...new Set<CheckpointCheck>(['headers', ...checks, ...(this.#bytes?.checks ?? [])])];
  }

  /**
   * Verifies every model, and that no folder is missing. Goes on after a model with problems. Names of files in problems
   * include the folder. Unless `headersOnly` is true, local files that declare hashes are read and compared, and every
   * entry of a DDUF archive is compared with its CRC-32. `files` of the report lists the tensors that were compared.
   *
   * @returns the report: `ok` is false if there are problems
   *
   * @throws FileClosedError; Error Node's own `EMFILE` and the like; `signal.reason`
   */
  async verify(options: VerifyBytesOptions = {}): Promise<VerificationReport> {
    requireVerifyBytesOptions(options);
    const { headersOnly = false, signal, onProgress } = options;
    const bytes = headersOnly ? undefined : this.#bytes;
    const problems = this.missing.map((name) => missingComponent(name, this.path));
    const checks = new Set<CheckpointCheck>(['headers']);
    const files = new Map<string, VerifiedFile>();
    const add = (file: VerifiedFile): void => void files.set(file.file, file);
    for (const [folder, error] of this.failed) {
      const problem = failedModel(folder, error);
      problems.push(problem);
      add(unverifiedFile(problem.file, 0, 'unreadable'));
    }
    const modelOptions = bytes === undefined ? options : { headersOnly: true, signal };
    for (const [folder, model] of this.models) {
      const report = await model.verify(modelOptions);
      for (const one of report.problems) problems.push({ ...one, file: `${folder}/${one.file}` });
      for (const check of report.checks) checks.add(check);
      for (const file of report.files) add({ ...file, file: `${folder}/${file.file}` });
    }
    if (bytes !== undefined) {
      const found = await bytes.verify({ signal, onProgress });
      for (const problem of found.problems) problems.push(problem);
      for (const file of found.files) add(file);
    }
    return reportOf([...checks], problems, [...files.values()]);
  }

  /** Closes all models; a second call does nothing. */
  close(): void {
    for (const model of this.models.values()) model.close();
    this.#end?.();
  }

  /** For `using pipeline = openPipeline(path)`: as `close()`, at the end of the block. */
  [Symbol.dispose](): void {
    this.close();
  }
}
