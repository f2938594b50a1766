/** Before the tests of the viewer: fails without the browsers that they drive. */
import { findChromium, findFirefox } from '../../support/browser.js';

export default function setUp(): void {
  if (findChromium() === null) throw new Error('there is no Chromium: apt-get install chromium');
  if (findFirefox() === null) throw new Error('there is no Firefox: apt-get install firefox-esr');
}
