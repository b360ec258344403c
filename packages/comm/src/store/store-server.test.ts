import { describe, expect, it } from 'vitest';
import { everyInterfaceNotice } from './store-server.js';

const source = '--master-addr';

describe('everyInterfaceNotice', () => {
  it('says nothing of an address of one interface', () => {
    for (const address of ['127.0.0.1', '10.0.0.1', '::1', 'fd00::7', 'localhost'])
      expect(everyInterfaceNotice({ address, source })).toBeUndefined();
  });

  it.each(['node0', 'node0.cluster.example', 'fe80::1%eth0'])('says that %s is a name', (address) => {
    expect(everyInterfaceNotice({ address, source })).toBe(
      `--master-addr ${address} is a name, so that the store of the job listens on every interface of this host; ` +
        'an IP address of this host limits it to that one',
    );
  });

  it.each(['0.0.0.0', '::'])('says that %s is every interface', (address) => {
    expect(everyInterfaceNotice({ address, source })).toBe(
      `--master-addr ${address}: the store of the job listens on every interface of this host; ` +
        'an IP address of this host limits it to that one',
    );
  });
});
