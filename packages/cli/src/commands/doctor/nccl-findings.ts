import { glooProblem, type NcclInformation, ncclInformation } from '@mtl/comm';
import { MtlError } from '@mtl/errors';
import { findGpu } from '@mtl/kernels/internal';
import type { Finding } from './finding.js';

/**
 * NCCL's library, its version and path, or what lacks; and over what processes of a job would communicate
 * here.
 */
export function ncclFindings(): readonly Finding[] {
  // none without the CUDA library or a driver, of which another finding tells
  const gpus = findGpu().probe?.devices.length ?? 0;
  let found: NcclInformation | undefined;
  let nccl: Finding;
  try {
    found = ncclInformation();
    const { version, path, builtAgainst } = found;
    nccl = { name: 'NCCL', status: 'ok', value: `${version}, ${path} (compiled against ${builtAgainst})` };
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    if (error.code === 'MTL_ADDON') return [noAddon(error)];
    // the native part brings its remedy in the text: a list of the paths that were tried comes before it
    const [first = '', ...rest] = error.message.split('\n');
    const remedy = /remedy: (.*)$/s.exec(error.message)?.[1] ?? error.remedy;
    const value = first.replace(/; (tried:|remedy: .*)$/, '');
    const tried = rest.length > 1 ? `, not in any of ${rest.length - 1} places` : '';
    nccl = {
      name: 'NCCL',
      status: 'note',
      value: `${value}${tried}`,
      ...(remedy === undefined ? {} : { remedy }),
    };
  }
  return [nccl, engines({ gpus, hasNccl: found !== undefined })];
}

/** Without the addon nothing else can be asked. */
function noAddon({ message, remedy }: MtlError): Finding {
  const value = message.split('\n')[0]!;
  return { name: 'NCCL', status: 'note', value, ...(remedy === undefined ? {} : { remedy }) };
}

function engines({ gpus, hasNccl }: { readonly gpus: number; readonly hasNccl: boolean }): Finding {
  const cpu = `local on one host, ${glooProblem() === undefined ? 'gloo' : 'none (this build has no Gloo)'} between hosts`;
  const name = 'ranks communicate over';
  if (gpus === 0) return { name, status: 'ok', value: cpu };
  const onGpus = hasNccl
    ? `nccl with up to ${gpus} process${gpus === 1 ? '' : 'es'} per host, through the host's memory with more`
    : "through the host's memory (no NCCL)";
  return { name, status: 'ok', value: `${cpu}; --device cuda: ${onGpus}` };
}
