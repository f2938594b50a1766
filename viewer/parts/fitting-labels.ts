/** Labels of a width: shortened ones keep the end, where names differ. */

type Fits = (text: string) => boolean;

/** Letters of the start of a label that tell it from others whose end is the same. */
const HEADS = [0, 1, 2, 4, 8, 16];

/** Where the longest end of a text that fits after a head begins. */
function beginOfEnd(text: string, head: string, from: number, fits: Fits): number {
  let [low, high] = [from, text.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (fits(head + text.slice(middle))) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The head before an ellipsis, and the end that fits. */
function fittingLabel(text: string, fits: Fits): string {
  if (fits(text)) return text;
  const from = text.indexOf('…') + 1;
  const head = text.slice(0, from) || '…';
  const begin = beginOfEnd(text, head, from, fits);
  // No word is broken, unless nothing would be left.
  const word = /[._]/.test(text[begin - 1] ?? '') ? 0 : text.slice(begin).search(/[._]./) + 1;
  return head + text.slice(begin + word);
}

function countsOf(texts: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return counts;
}

/** Shortens labels to what fits. Those that would be the same get the first letters that distinguish them. */
export function fittingLabels(labels: readonly string[], fits: Fits): readonly string[] {
  const shown = labels.map((label) => fittingLabel(label, fits));
  for (const length of HEADS) {
    const counts = countsOf(shown);
    const same = [...shown.keys()].filter((at) => counts.get(shown[at] as string) !== 1);
    const others = same.map((at) => {
      const label = labels[at] as string;
      const head = `${label.slice(0, length)}…`;
      const from = Math.max(length, label.indexOf('…') + 1);
      return head + label.slice(beginOfEnd(label, head, from, fits));
    });
    const otherCounts = countsOf(others);
    for (const [index, other] of others.entries()) {
      if (otherCounts.get(other) === 1 && !counts.has(other) && fits(other))
        shown[same[index] as number] = other;
    }
  }
  return shown;
}
