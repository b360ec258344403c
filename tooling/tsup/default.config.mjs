// The build configuration for packages without a tsup.config.ts. It sets nothing except the package's entry
// points.
import { library } from './preset.mjs';

export default library();
