/** When a soak has failed: rules over its samples. */

const MB = 2 ** 20;

/** The first part of a run, in which caches fill; at most five minutes. */
const WARM_UP_SHARE = 1 / 3;
const WARM_UP_SECONDS = 300;

/** Fewer rests than this allow no verdict. */
const LEAST_RESTS = 6;

/**
 * Limits of growth over the second half of a run. The figures are those of rests, when nothing is under way and
 * garbage is collected; so a descriptor, a handle or a mapping of a file more is a leak. V8 decides for itself how
 * many pages its heap has: the used part of them is judged, and private memory and mappings without them.
 */
const RULES = {
  descriptors: { title: 'descriptors', allowed: 0.9, isKept: true },
  handles: { title: 'handles', allowed: 0.9, isKept: true },
  fileMappings: { title: 'mappings of files', allowed: 0.9, isKept: true },
  fileBytes: { title: 'mapped bytes of files', allowed: MB },
  otherMappings: { title: 'other mappings', allowed: 100 },
  otherBytes: { title: 'other mapped bytes', allowed: 64 * MB },
  nativeBytes: { title: 'private memory outside of the heap', allowed: 24 * MB },
  heapUsed: { title: 'the heap, used', allowed: 4 * MB },
  arrayBuffers: { title: 'buffers', allowed: 4 * MB },
  busyPrivateBytes: { title: 'private memory at work', allowed: 64 * MB },
};

/** Mappings without a page: the addresses of the last 4 096 detached files, and those of V8 and of stacks. */
const EMPTY_LIMIT = 4096 + 400;

/** Limit of the computing time of one turn of the event loop, in ms. */
const RAN_P99 = 60;
const RAN_LONGEST = 250;

/**
 * The share of the time that turns may sleep for more than 50 ms. On a loaded machine they do so through no fault of
 * theirs, since threads that hold a lock of the kernel or of the collector wait for a processor: so `PRESSURE` times the share
 * of the time in which somebody waited for one is added.
 */
const ASLEEP_SHARE = 0.05;
const PRESSURE = 0.4;

/** A ruling as a line: both figures in the same unit. */
export function lineOf({ title, found, allowed, isLeast, isBroken }) {
  const isLarge = Math.max(Math.abs(found), Math.abs(allowed)) >= MB;
  const [foundText, allowedText] = [found, allowed].map((value) =>
    isLarge ? `${(value / MB).toFixed(1)} MB` : String(Number(value.toPrecision(3))),
  );
  const bound = isLeast ? 'at least' : 'at most';
  return `${isBroken ? 'BROKEN' : 'ok    '} ${title}: ${foundText}, ${bound} ${allowedText}`;
}

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Theil and Sen: the median of the slopes of all pairs, which a few outliers do not move. */
export function slope(points) {
  const slopes = points.flatMap(([x, y], i) =>
    points.slice(i + 1).map(([otherX, otherY]) => (otherY - y) / (otherX - x)),
  );
  return median(slopes);
}

/**
 * By how much a figure grows: over the second half of the points by their slope, and from the median of their
 * second third to that of the last one. The larger of the two.
 */
export function growth(points) {
  const half = points.slice(points.length >> 1);
  const third = Math.floor(points.length / 3);
  const valuesOf = (some) => some.map(([, y]) => y);
  const bySlope = slope(half) * (half.at(-1)[0] - half[0][0]);
  const byMedians =
    median(valuesOf(points.slice(-third))) - median(valuesOf(points.slice(-2 * third, -third)));
  return Math.max(bySlope, byMedians);
}

/**
 * By how much a figure grows of which what leaks is kept until the end: from the least of the second third of the points
 * to the least of the last one. Some rests have one or two more than the next.
 */
export function leastGrowth(points) {
  const third = Math.floor(points.length / 3);
  const leastOf = (some) => Math.min(...some.map(([, y]) => y));
  return leastOf(points.slice(-third)) - leastOf(points.slice(-2 * third, -third));
}

/**
 * Judges a run: `rests` have `seconds` and a number for every rule. Gives a line for each rule, and whether it
 * is broken. Without a third of the run there is nothing to compare, so a short one is judged as it is.
 */
export function judge(rests) {
  const length = rests.at(-1)?.seconds ?? 0;
  const warmUp = Math.min(WARM_UP_SECONDS, length * WARM_UP_SHARE);
  const kept = rests.filter(({ seconds }) => seconds >= warmUp);
  if (kept.length < LEAST_RESTS) {
    const [found, allowed] = [kept.length, LEAST_RESTS];
    return [{ title: 'rests', found, allowed, isLeast: true, isBroken: true }];
  }
  const grown = Object.entries(RULES).map(([key, { title, allowed, isKept }]) => {
    const points = kept.map((rest) => [rest.seconds, rest[key]]);
    const found = isKept ? leastGrowth(points) : growth(points);
    return { title: `growth of ${title}`, found, allowed, isBroken: !(found <= allowed) };
  });
  const all = (key) => kept.map((rest) => rest[key]);
  const asleep = ASLEEP_SHARE + PRESSURE * median(all('pressure'));
  const limited = [
    ['empty mappings', Math.max(...all('emptyMappings')), EMPTY_LIMIT],
    ['loop: a turn ran, p99, ms', median(all('ranP99')), RAN_P99],
    ['loop: a turn ran, longest, ms', Math.max(...all('ranLongest')), RAN_LONGEST],
    ['loop: share of time asleep in turns', median(all('asleepShare')), asleep],
  ].map(([title, found, allowed]) => ({ title, found, allowed, isBroken: !(found <= allowed) }));
  return [...grown, ...limited];
}
