import { library } from '@mtl/tooling/tsup';

export default library(['src/index.ts', 'src/records/index.ts']);
