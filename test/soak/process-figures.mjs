/** The kernel's figures of a process. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * Figures that can be read while the process works: private memory and descriptors. Private memory is what is
 * anonymous: heap, stacks, pages of mappings that were written to. `Private_Dirty` would also have pages of a file
 * that was just saved and is mapped here only, which are the system's.
 */
export function processFigures(pid) {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return {
    privateBytes: bytesOf(rollup, 'Anonymous') + bytesOf(rollup, 'Swap'),
    descriptors: descriptorsOf(pid),
  };
}

/**
 * Descriptors, without those of modules: when a worker is terminated while it imports a file, Node 20 leaves that
 * file open, in programs without this package, too.
 */
function descriptorsOf(pid) {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((name) => !/\.m?js$/.test(targetOf(`${folder}/${name}`)))
    .length;
}

/** What a descriptor belongs to; empty for one that was closed meanwhile. */
function targetOf(path) {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function bytesOf(text, field) {
  return 1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text)[1]);
}

/** Pages of V8's heap begin at such addresses; the pools of glibc do at multiples of 64 MiB. */
const HEAP_PAGE = 2 ** 18;
const POOL = 2 ** 26;

/**
 * Mappings of four kinds: those of files; pages of V8's heap, of which V8 keeps as many as it likes; empty ones, which
 * are addresses alone; and the others, which have private memory outside of the heap. Among the empty ones the addon
 * keeps the addresses of the last 4 096 files that were detached, so that a bare pointer reads zeros: their number grows
 * to that limit, and costs nothing.
 */
export function mappingFigures(pid) {
  const figures = {
    fileMappings: 0,
    fileBytes: 0,
    heapPages: 0,
    emptyMappings: 0,
    otherMappings: 0,
    otherBytes: 0,
    nativeBytes: 0,
  };
  const entries = readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  for (const entry of entries) {
    const [, start, name] = /^([0-9a-f]+)-\S+ \S+ \S+ \S+ \S+ *(.*)$/m.exec(entry);
    const address = Number.parseInt(start, 16);
    const byteLength = bytesOf(entry, 'Size');
    const privateBytes = bytesOf(entry, 'Anonymous') + bytesOf(entry, 'Swap');
    const isOfHeap = name === '' && address % HEAP_PAGE === 0 && address % POOL !== 0;
    if (name.startsWith('/')) {
      figures.fileMappings++;
      figures.fileBytes += byteLength;
    } else if (privateBytes === 0) {
      figures.emptyMappings++;
    } else if (isOfHeap) {
      figures.heapPages++;
    } else {
      figures.otherMappings++;
      figures.otherBytes += byteLength;
    }
    if (!isOfHeap) figures.nativeBytes += privateBytes;
  }
  return figures;
}

/** For how many microseconds some process of this machine has waited for a processor; 0 where the kernel does not tell. */
export function pressureTotal() {
  try {
    return Number(/^some .*total=(\d+)/.exec(readFileSync('/proc/pressure/cpu', 'utf8'))?.[1]);
  } catch {
    return 0;
  }
}
