/** The page: a bar with the views, the tensors at the side, and the view that the address names. */

import { useEffect, useMemo } from 'preact/hooks';
import { useDark } from '../parts/canvas.js';
import {
  close,
  followAddress,
  type OpenSource,
  openIn,
  slots,
  typedPlace,
} from '../parts/open-sources.js';
import { servedSources, serverToken } from '../parts/served.js';
import { Shortcuts } from '../parts/shortcuts.js';
import { SideHandle, sideWidth } from '../parts/side-handle.js';
import { useSignal } from '../parts/signal.js';
import { useAddress, viewAddress } from '../parts/use-address.js';
import { Compare } from './compare.js';
import { EarlyOverview } from './early-overview.js';
import { ByteMapView } from './map.js';
import { Open, openServed, useDrop } from './open.js';
import { Overview } from './overview.js';
import { Tensor } from './tensor.js';
import { Tensors } from './tensors.js';

/** The views with a place in the bar. */
const VIEWS = [
  { view: 'overview', label: 'Overview' },
  { view: 'tensors', label: 'Tensors' },
  { view: 'map', label: 'Map' },
  { view: 'compare', label: 'Compare' },
] as const;

/** Opens what the address names: names of the page's server, or addresses. */
async function openNamed(): Promise<void> {
  const served = serverToken === null ? [] : await servedSources().catch(() => []);
  followAddress((slot, name) => {
    const found = served.find((source) => source.name === name);
    if (found !== undefined) openServed(slot, found);
    else void openIn(slot, typedPlace(name));
  });
}

/** Makes the page light or dark, whatever the system is. */
function setTheme(theme: 'light' | 'dark'): void {
  document.documentElement.style.colorScheme = theme;
  dispatchEvent(new Event('themechange'));
}

function Bar({ source, view }: { source: OpenSource | null; view: string }) {
  const [theme, next] = useDark() ? (['dark', 'light'] as const) : (['light', 'dark'] as const);
  return (
    <header class="bar">
      <a class="brand" href={viewAddress('overview')}>
        <span class="mark" aria-hidden="true">
          ▦
        </span>{' '}
        <span class={source === null ? undefined : 'words'}>safetensors viewer</span>
      </a>
      {source !== null && (
        <nav aria-label="Views">
          {VIEWS.map(({ view: name, label }) => (
            <a
              key={name}
              class={name === 'tensors' ? 'only-narrow' : undefined}
              href={viewAddress(name)}
              aria-current={name === view ? 'page' : undefined}
            >
              {label}
            </a>
          ))}
        </nav>
      )}
      <div class="end">
        {source !== null && (
          <>
            <span class="muted source-name" title={source.label}>
              {source.label}
            </span>
            <button type="button" onClick={() => close('first')}>
              Close
            </button>
          </>
        )}
        <Shortcuts />
        <button
          type="button"
          class="quiet"
          onClick={() => setTheme(next)}
          aria-label={`Colours: ${theme}; switch to ${next}`}
          title={`Colours: ${theme}; switch to ${next}`}
        >
          {theme === 'dark' ? '☾' : '☀'}
        </button>
      </div>
    </header>
  );
}

function View({
  source,
  view,
  tensor,
}: {
  source: OpenSource;
  view: string;
  tensor: string | undefined;
}) {
  switch (view) {
    case 'tensor':
      return tensor === undefined ? (
        <Overview source={source} />
      ) : (
        <Tensor source={source} name={tensor} />
      );
    case 'map':
      return <ByteMapView key={source.id} source={source} />;
    case 'compare':
      return <Compare key={source.id} source={source} />;
    case 'tensors':
      // The list is at the side; on a narrow screen it stands below this heading.
      return (
        <>
          <h1 class="only-narrow">Tensors</h1>
          <div class="only-wide">
            <Overview source={source} />
          </div>
        </>
      );
    default:
      return <Overview source={source} />;
  }
}

/** The whole page. */
export function App() {
  const address = useAddress();
  const { open: source, opening } = useSignal(slots.first);
  const width = useSignal(sideWidth);
  useDrop();
  // Back and Forward change only the address.
  useEffect(() => void openNamed(), [address.open, address.with, address.base]);
  const view = address.view ?? (address.tensor === undefined ? 'overview' : 'tensor');
  useEffect(() => {
    document.title =
      source === null ? 'safetensors viewer' : `${address.tensor ?? view} – ${source.label}`;
  }, [source, view, address.tensor]);
  // A search changes the address with every letter, and not the view.
  const shown = useMemo(
    () => source && <View source={source} view={view} tensor={address.tensor} />,
    [source, view, address.tensor],
  );
  const early = view === 'overview' ? opening?.progress?.early : undefined;
  const isSingle = source === null && early === undefined;
  const classes = ['page', isSingle && 'single', view === 'tensors' && 'listing'];
  return (
    <div class={classes.filter(Boolean).join(' ')} style={{ '--side': `${width}px` }}>
      <Bar source={source} view={view} />
      {!isSingle && (
        <aside class="side" aria-label="Tensors">
          {source !== null && <Tensors source={source} />}
          <SideHandle width={width} />
        </aside>
      )}
      <main class="view" tabIndex={-1}>
        {shown ??
          (opening !== null && early !== undefined ? (
            <EarlyOverview opening={opening} early={early} />
          ) : (
            <Open slot="first" />
          ))}
      </main>
    </div>
  );
}
