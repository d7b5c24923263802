// A DRAM's timing figures, in clocks of its command clock. Names are those of the JEDEC standards.
#pragma once

#include <cstdint>

namespace npu::timing {

struct DramTiming {
  uint32_t t_burst_clocks = 2;      // data bus per burst
  uint32_t t_cl_clocks = 13;        // read command to first data
  uint32_t t_cwl_clocks = 7;        // write command to first data
  uint32_t t_rcd_read_clocks = 13;  // activate to read
  uint32_t t_rcd_write_clocks = 11;
  uint32_t t_rp_clocks = 13;    // precharge to activate
  uint32_t t_ras_clocks = 31;   // activate to precharge
  uint32_t t_wr_clocks = 15;    // last written data to precharge
  uint32_t t_rtp_clocks = 5;    // read to precharge
  uint32_t t_ccd_s_clocks = 2;  // column command to column command, other bank group
  uint32_t t_ccd_l_clocks = 4;  // same bank group
  uint32_t t_rrd_s_clocks = 4;  // activate to activate, other bank group
  uint32_t t_rrd_l_clocks = 4;
  uint32_t t_faw_clocks = 15;   // any five activates span more than this
  uint32_t t_wtr_s_clocks = 6;  // last written data to read, other bank group
  uint32_t t_wtr_l_clocks = 8;
  uint32_t t_rtw_clocks = 10;     // read command to write command
  uint32_t t_rfc_clocks = 329;    // a refresh command: all banks, or one bank where refresh is per bank
  uint32_t t_refi_clocks = 3666;  // average interval in which every bank is refreshed once
  bool refresh_per_bank = false;
  bool refresh = true;
};

}  // namespace npu::timing
