/* SPDX-License-Identifier: Apache-2.0
 * A recorded call in words, the same in errors, status and dumps: "AllReduce(1000 x float32, sum)", "Send(3 x int32) to rank 1". */
#ifndef MOTET_CALL_TEXT_H
#define MOTET_CALL_TEXT_H

#include "region.h"

/* The call with its arguments. The record may come from anywhere. Returns text. */
const char *motet_call_text(char *text, size_t len, const struct motet_record *record);

/* Its name alone: "AllReduce", "AllGatherV", "SendTag". */
const char *motet_call_name(char *text, size_t len, const struct motet_record *record);

/* "LL", "Simple", "Direct"; "" before the choice. */
const char *motet_call_protocol(const struct motet_record *record);

/* "SHM", "P2P/direct+NET/Socket"; "" when nobody was reached. Returns text. */
const char *motet_call_transports(char *text, size_t len, unsigned transports);

/* Name of the algorithm; "" for messages and before the choice. */
const char *motet_call_algorithm(const struct motet_record *record);

/* Whether it is a Send or Recv. */
static inline int motet_call_is_message(const struct motet_record *record)
{
    return record->collective == MOTET_RECORD_SEND || record->collective == MOTET_RECORD_RECV;
}

#endif
