import { library } from '@mtl/tooling/tsup';
import { buildPage } from './build-page.mjs';

// after the library, whose build empties the folder
export default { ...library(), onSuccess: buildPage };
