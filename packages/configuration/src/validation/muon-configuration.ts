import { ConfigurationError } from '@mtl/errors';
import type { FlagName } from '../flags/flag-schema.js';
import { muonFlags } from '../flags/optimizer-flags.js';
import type { MuonConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';

/**
 * Muon, where it is asked for.
 *
 * @throws ConfigurationError `MTL_MUON_TP_MODE` for updates that depend on the layout.
 */
export function muonConfiguration(flags: FlagReader, notices: string[]): MuonConfiguration | undefined {
  if (flags.required('optimizer') !== 'muon') {
    for (const name of Object.keys(muonFlags) as FlagName[]) {
      if (flags.isGiven(name)) notices.push(`--${name} has no effect without --optimizer muon`);
    }
    return undefined;
  }
  const mode = flags.required('muon-tp-mode');
  if (mode === 'blockwise') {
    throw new ConfigurationError(
      'MTL_MUON_TP_MODE',
      `${flags.written('muon-tp-mode')}: a block is a tensor-parallel shard, so that the model would depend on --tensor-model-parallel-size`,
      {
        expected: '--muon-tp-mode duplicated, which gives every layout the update of one process',
        remedy: 'leave --muon-tp-mode out',
      },
    );
  }
  if (mode === 'distributed') {
    notices.push('--muon-tp-mode distributed runs as duplicated, which gives the same update');
  }
  const precision = flags.get('muon-fp32-matmul-prec');
  return {
    momentum: flags.required('muon-momentum'),
    nesterov: flags.required('muon-nesterov'),
    scaleMode: flags.required('muon-scale-mode'),
    extraScaleFactor: flags.required('muon-extra-scale-factor'),
    coefficientType: flags.required('muon-coefficient-type'),
    numSteps: flags.required('muon-num-ns-steps'),
    splitQkv: !flags.required('muon-no-split-qkv'),
    ...(precision === undefined ? {} : { dtype: precision === 'high' ? 'float32' : 'bfloat16' }),
  };
}
