/** Starts the page. */

import { render } from 'preact';
import { startWorker } from './client.js';
import { App } from './views/app.js';

startWorker();
render(<App />, document.getElementById('page') as HTMLElement);
