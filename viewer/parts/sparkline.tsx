/** The histogram of a sample of a tensor, without axes. */

import { useCall } from './use-call.js';

const [WIDTH, HEIGHT] = [236, 56];

/** Shows how values of a tensor are spread, once they are read. */
export function Sparkline({ id, tensor }: { id: number; tensor: string }) {
  const { result } = useCall('statistics', { id, tensor, extent: 'glance' }, { delay: 120 });
  const counts = result?.histogram?.counts ?? [];
  const most = counts.reduce((top, count) => Math.max(top, count), 0);
  const step = WIDTH / counts.length;
  const bars = Array.from(counts, (count, at) => {
    const h = (HEIGHT * count) / most;
    return `M${(at * step).toFixed(1)} ${HEIGHT}v${(-h).toFixed(1)}h${step.toFixed(1)}v${h.toFixed(1)}`;
  });
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT}>
      <title>Histogram</title>
      <path d={bars.join('')} />
    </svg>
  );
}
