/** The script of the page and of its worker: one text, so that modules which both import are there once. */

import { render } from 'preact';
import { startWorker } from './client.js';
import { App } from './views/app.js';
import { answerCalls } from './worker/worker.js';

if (typeof document === 'undefined') answerCalls();
else {
  startWorker(document.currentScript?.textContent ?? '');
  render(<App />, document.getElementById('page') as HTMLElement);
}
