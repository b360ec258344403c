import { library } from '@mtl/tooling/tsup';

export default library(['src/index.ts', 'src/internal/index.ts', 'src/metrics/renamed-losses.ts']);
