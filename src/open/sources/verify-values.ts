/** `verify` with `values`: NaN, infinities, constant and all-zero tensors of a whole model. */

import { quoteName } from '../../errors/errors.js';
import { isOfFile, problemOf } from '../../file/shards/file-problems.js';
import type {
  CheckpointProblem,
  ValueFindings,
  VerificationReport,
} from '../../file/shards/verification-report.js';
import type { TensorSource } from '../../file/source/tensor-source.js';
import { modelStatistics } from '../../inspect/values/model-statistics.js';
import type { Statistics } from '../../inspect/values/running-statistics.js';
import type { TransferOptions } from '../../work/transfer.js';

/** An open checkpoint or pipeline. */
type Opened = TensorSource | { readonly models: ReadonlyMap<string, TensorSource> };

/** Integers that doubles hold exactly: greater ones may only look constant. */
const isExact = ({ min }: Statistics): boolean => Math.abs(min ?? 0) <= Number.MAX_SAFE_INTEGER;

/**
 * The report with the findings about the values of an open source. A file that cannot be read ends them, as a problem.
 *
 * @throws TypeError for a handle without tensors; errors of the process, such as `EMFILE`; `signal.reason`
 */
export async function withValues(
  report: VerificationReport,
  opened: object,
  options: TransferOptions,
): Promise<VerificationReport> {
  const problems: CheckpointProblem[] = [...report.problems];
  const found = { tensors: 0, nan: [], infinite: [], constant: [], zero: [] } as {
    tensors: number;
  } & Record<Exclude<keyof ValueFindings, 'tensors'>, string[]>;
  const checks = [...report.checks];
  try {
    for await (const { entry, statistics } of modelStatistics(opened as Opened, options)) {
      const { name, file, dtype } = entry;
      const { elements, nan, infinite, zero, min, max } = statistics;
      found.tensors++;
      if (nan > 0) found.nan.push(name);
      if (infinite > 0) found.infinite.push(name);
      if (nan + infinite > 0) {
        const message = `${nan} NaN and ${infinite} infinite of ${elements} values of tensor ${quoteName(name)}`;
        problems.push({ file, tensor: name, code: 'SAFETENSORS_NON_FINITE', message });
      } else if (elements > 0 && zero === elements) found.zero.push(name);
      else if (elements > 1 && min === max && (isFloat(dtype) || isExact(statistics))) {
        found.constant.push(name);
      }
    }
    checks.push('values');
  } catch (error) {
    if (!isOfFile(error)) throw error;
    problems.push(problemOf(Object(error).path ?? '', error));
  }
  return { ...report, ok: problems.length === 0, checks, problems, values: found };
}

function isFloat(dtype: string): boolean {
  return !/^[IU]/.test(dtype);
}
