import { library } from '@mtl/tooling/vitest';

export default library();
