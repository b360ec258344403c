import { buildPage } from '../build-page.mjs';

/** Before the tests: they run on the page as its sources are now. */
export default (): Promise<void> => buildPage('dist');
