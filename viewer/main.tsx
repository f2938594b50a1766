/** The script of the page and of its worker: one text, so that modules which both import are there once. */

import { render } from 'preact';
import { startWorker } from './client.js';
import { App } from './views/app.js';
import { answerCalls } from './worker/worker.js';

if (typeof document === 'undefined') answerCalls();
else {
  const text = document.currentScript?.textContent;
  if (!text) throw new Error('the script must be inline: its text is also that of its worker');
  startWorker(text);
  render(<App />, document.getElementById('page') as HTMLElement);
}
