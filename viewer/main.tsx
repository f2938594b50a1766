/** Starts the page. */

import { render } from 'preact';
import { App } from './views/app.js';

render(<App />, document.getElementById('page') as HTMLElement);
