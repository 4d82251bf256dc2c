/* SPDX-License-Identifier: Apache-2.0
 * `motet run --agent`: the launcher's hand on another host. Started over ssh, it speaks frames on stdin and stdout, starts
 * the ranks of its host and ends with everything that they started when its stdin closes. */
#ifndef MOTET_TOOLS_AGENT_H
#define MOTET_TOOLS_AGENT_H

/* Body for shepherd_run. */
int agent_main(void *context, int lifeline);

/* Two different TCP ports that are free now, for MASTER_PORT and MOTET_ROOT of a rank 0 on this host. 0: none. */
void agent_free_ports(int ports[2]);

#endif
