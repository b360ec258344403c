// The command `mtl` from its sources, for ranks that `mtl run` starts.
import { runMtl } from '../../src/index.ts';

process.exitCode = await runMtl(process.argv.slice(2));
