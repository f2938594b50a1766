// The permitted results of a failed call: the rules of docs/guarantees.md.
import { join } from 'node:path';
import { differences } from './states.mjs';

/** Leftovers of a checkpoint's save whose error came after the switch; the next save removes them. */
const INTERIM = /(?:^|\/)\.safetensors-mmap-[0-9a-f]{8}-[0-9a-f]{16}\.(?:tmp|safetensors)$/;

/** The record of a save whose error came after the switch, or that could not delete a file. */
const RECORD = /(?:^|\/)\.safetensors-mmap-[0-9a-f]{8}\.replacing$/;

/** The record of a folder's repository, and the calls that write it. */
const REPOSITORY = /(?:^|\/)\.safetensors-mmap-repository\.json$/;
const RECORDING = /\/\.safetensors-mmap-(?:repository\.json|[0-9a-f]{16}\.tmp)$/;

/** Files of a checkpoint. */
const WEIGHTS = /^model\/(?:(?:part|unet)\/)?model(?:-\d+-of-\d+)?\.safetensors(?:\.index\.json)?$/;

/** Files that a download keeps for the next one: received bytes, and notes of complete files. */
const KEPT =
  /(?:^|\/)(?:\.safetensors-mmap-[0-9a-f-]+|[0-9a-f]{40,64})\.(?:incomplete|downloaded)$/;

/** Folders that are made in the Hub cache before any file. */
const CACHE = /^cache\/(?:\.locks|CACHEDIR\.TAG|models--org--model)(?:\/|$)/;

/** The file that an edit exchanged and could not delete. */
const EXCHANGED = /^\.safetensors-mmap-[0-9a-f]{16}\.tmp$/;

/** Edits that put a new file in the place of the old one. */
function isRewriting({ name }) {
  return name === 'editMetadata' || name === 'editMetadata with digests';
}

/** The old header, while an edit in place is under way. */
const BACKUP = /\.header-backup$/;

/** Node has no name for this one. */
const UNNAMED = { ESTALE: 'Unknown system error -116' };

function without(state, ...patterns) {
  return new Map([...state].filter(([path]) => !patterns.some((pattern) => pattern.test(path))));
}

/** Whether an error may leave this state, other than the old one. */
function isDocumented({ operation, fault, outcome, state, before, after, contents, root }) {
  const { hit } = outcome;
  const isSame = (one, other) => differences(one, other).length === 0;
  const inRoot = hit.slice(root.length + 1).replace(/\/$/, '');
  const isFolder = hit.startsWith(root) && (inRoot === '' || after.get(inRoot) === null);
  // The folder is synced last; the note that a download leaves for the next one may lack a descriptor, too.
  const notes = operation.group === 'download' ? [KEPT] : [];
  if (isFolder && isSame(without(state, ...notes), without(after, ...notes))) return true;
  const isOldOrNew = (entry) => {
    const other = new Map([entry]);
    return [before, after].some((whole) => {
      return isSame(other, new Map([...whole].filter(([path]) => path === entry[0])));
    });
  };
  if (operation.isCheckpoint && contents.now === contents.after) {
    // Files next to the weights follow one by one.
    return [...without(state, INTERIM, RECORD, WEIGHTS, KEPT)].every(isOldOrNew);
  }
  // Repairs are atomic per file.
  if (operation.name.endsWith('repaired')) {
    return [...without(state, INTERIM, RECORD, KEPT)].every(isOldOrNew);
  }
  if (operation.group === 'download') {
    return isSame(without(state, KEPT, CACHE), without(before, KEPT, CACHE));
  }
  if (isRewriting(operation) && EXCHANGED.test(inRoot)) {
    return isSame(without(state, EXCHANGED), after);
  }
  if (operation.name === 'editMetadata in place') {
    // After the header was written: looking at the path again, deleting the backup.
    const left = inRoot.endsWith('.header-backup') ? BACKUP : /(?!)/;
    if (['stat', 'unlink'].includes(fault.kind)) return isSame(without(state, left), after);
    // The old header cannot be put back for sure: its backup stays.
    const isBroken = fault.isLasting && ['write', 'fsync'].includes(fault.kind);
    return isBroken && isSame(without(state, BACKUP), before);
  }
  return false;
}

/** Problems of the way an operation ended; empty if it was right. */
export function objections(end) {
  const { operation, fault, outcome, state, before, after, whole, root } = end;
  const { error, value, hit } = outcome;
  const found = [];
  if (error === undefined) {
    if (value !== whole.value && !isFailedDeletion(value, hit))
      found.push('the result is another one');
    const ignored = operation.group === 'download' ? [INTERIM, KEPT] : [INTERIM];
    // The next save deletes the file.
    if (isFailedDeletion(value, hit) || RECORD.test(hit)) ignored.push(RECORD);
    // Without its record, a folder needs `overwrite` for the next version.
    if (operation.group === 'download' && RECORDING.test(hit)) ignored.push(REPOSITORY);
    const isLeft = (path) => hit === join(root, path);
    const left = differences(without(state, ...ignored), without(after, ...ignored)).filter(
      (text) => !(text.endsWith(' is left') && isLeft(text.slice(0, -8))),
    );
    if (left.length > 0) found.push(`it succeeded, but ${left.join('; ')}`);
    return found;
  }
  const codes = [fault.fault, UNNAMED[fault.fault] ?? fault.fault];
  // A verification reports each file that it cannot read.
  const told = error.problems?.filter(({ file }) => hit.endsWith(`/${file}`)) ?? [error];
  if (!told.some(({ code }) => codes.includes(code))) found.push(`the code is ${error.code}`);
  if (!String(error.path).startsWith(root)) found.push(`the path is ${error.path}`);
  const left = differences(state, before);
  if (left.length > 0 && !isDocumented(end)) found.push(`it failed, and ${left.join('; ')}`);
  return found;
}

/** Problems of the same call afterwards, without a fault. */
export function objectionsAfter({ operation, fault, outcome, after, root }, again, state) {
  const inRoot = outcome.hit.slice(root.length + 1);
  if (again.error !== undefined) {
    // A backup that could not be deleted, or that is still needed, stops further edits.
    const isBackup = BACKUP.test(inRoot) || fault.isLasting === true;
    if (
      isBackup &&
      outcome.error !== undefined &&
      again.error.code === 'SAFETENSORS_EDIT_INTERRUPTED'
    )
      return [];
    return [`the same call then fails: ${again.error.stack}`];
  }
  const ignored = isRewriting(operation) && EXCHANGED.test(inRoot) ? [EXCHANGED] : [];
  const left = differences(without(state, ...ignored), after);
  return left.length > 0 ? [`the same call then leaves another state: ${left.join('; ')}`] : [];
}

/** Whether a result says that a file of the old checkpoint could not be deleted, and which. */
function isFailedDeletion(value, hit) {
  const { failedDeletions = [] } = value?.startsWith('{') ? JSON.parse(value) : {};
  return failedDeletions.some((name) => hit.endsWith(`/${name}`));
}

/** Names of files that a killed process may leave. */
export function isLeftOver(path) {
  const isTemporary = /(?:^|\/)\.safetensors-mmap-[0-9a-f]{16}\.tmp$/.test(path);
  const isOther = KEPT.test(path) || path.endsWith('.header-backup');
  return isTemporary || INTERIM.test(path) || RECORD.test(path) || isOther;
}
